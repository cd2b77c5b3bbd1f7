#%%
input x
# %% markdown
A text
# ---- diagnostics
[cell-marker] cell_markers.nf:1:1: warning: a cell starts with `# %%`: this is a comment
  #%%
  ^~~
help: write `# %%`
fix: write `# %%`: `#%%` becomes `# %%`
[cell-marker] cell_markers.nf:3:6: warning: a Markdown cell starts with `# %% [markdown]`: this one is code
  # %% markdown
       ^~~~~~~~
help: write `[markdown]`
fix: write `[markdown]`: `markdown` becomes `[markdown]`
[unknown-statement] cell_markers.nf:4:1: error: `A` begins no statement
  A text
  ^
note: a statement defines a tensor, `Y[i] = ...`, or begins with one of accumulate const data def eval for hint input let if loss param repeat require scatter show stack state train
