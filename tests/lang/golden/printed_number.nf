print(3)
# ---- diagnostics
[undefined-function] printed_number.nf:1:1: error: there is no function `print`
  print(3)
  ^~~~~
note: functions of the language: abs bf16 cos erf exp f16 f32 f64 float floor grad i32 log max min pow random relu rsqrt select sigmoid sin sqrt stop_gradient tanh
note: functions of the library: accuracy adam attention avg_pool2d batch_norm batch_norm1d bias capsule_conv capsule_conv_vector channel_shuffle clamp concat conv2d conv_transpose2d cross_entropy depth2space depthwise2d dropout elu embedding encoder_layer gelu gelu_tanh global_avg_pool global_max_pool hard_sigmoid hard_tanh layer_norm leaky_relu lengths linear lltm log_softmax lstm margin_loss max_pool2d milstm momentum mse project routing scrnn self_attention sgd silu softmax softplus square squash sublstm upsample
note: one of your own: `def f(x) = x^2`
note: a value is shown by its name: `V = 3`, `show V`
