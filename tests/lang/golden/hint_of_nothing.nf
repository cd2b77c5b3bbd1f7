input X[3] = 1
Yonder[i] = X[i]*2
Zest[i] = Yonder[i]+1
hint fuse Yonder, Q
show Zest
