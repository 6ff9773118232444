# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A paper's table, run again
#
# NIID-Bench (Li et al. 2022, arXiv:2102.02079) compares four algorithms on nine data sets; its Table 3 is what many papers
# cite. Unalike has the table as a study: the paper's own setting, its numbers, and ours beside them. This notebook runs
# the rows of FCUBE, which need no file, in the paper's full setting: two splits, four algorithms, three seeds, and the
# choice of FedProx's mu by validation rows.

# %%
# !unalike study run niid-table3 --only dataset=fcube --quiet

# %% [markdown]
# Below the table: how many differences are within two of the paper's standard deviations, and how mu was chosen, which is
# never by looking at test rows.
#
# Which rows does each party have? FCUBE's split is the paper's own: eight parts of a cube, dealt so that each party has two
# that are opposite each other, with different labels. So labels are even, and features are not.

# %%
import unalike
from IPython.display import SVG

# !unalike partition --dataset fcube --partition fcube --parties 4 --figure fcube.svg
SVG("fcube.svg")

# %% [markdown]
# A finished run is a folder. Every run of the study can be opened, compared and used.

# %%
comparison = unalike.compare("runs")
comparison

# %% [markdown]
# One page with curves, tables and the paper's numbers, to send to somebody:

# %%
# !unalike report niid-table3 -o table3.html

# %% [markdown]
# The other data sets need their files (`unalike data mnist --get`, where there is a network). All of the table that could be run
# on our machines, with what is known of each difference, is in the documentation under *Results*.
