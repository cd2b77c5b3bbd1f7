# %% [markdown]
# (an open bracket here is text

# %%
let N = M
# ---- diagnostics
[undefined-name] markdown_and_cells.nf:5:9: error: `M` is not defined
  let N = M
          ^
