# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # First steps
#
# Four hospitals record the same thirteen things about their patients and would like to predict heart disease together.
# They may not pool their rows, and their patients differ. Everything here runs on a laptop in seconds.

# %%
import unalike

heart = unalike.load_dataset("heart")
print(f"{heart.size} training rows of {len(heart.features)} features, from {', '.join(heart.group_names)}")

# %% [markdown]
# ## How unalike are they?
#
# Each hospital is a natural party. The picture shows who has how many rows of which class.

# %%
from IPython.display import SVG

# !unalike partition --dataset heart --partition natural --figure hospitals.svg
SVG("hospitals.svg")

# %% [markdown]
# Hospitals that cannot show each other even these counts can measure how unalike they are under encryption:

# %%
# !unalike measure --dataset heart --partition natural

# %% [markdown]
# ## Train together
#
# A run is a call. With `runs=` it has a folder: the same call goes on after a stop, and returns a finished result at once.

# %%
common = dict(dataset="heart", partition="natural", rounds=30, runs="runs")
fedavg = unalike.run(algorithm="fedavg", **common)
fedavg

# %% [markdown]
# ## Compare
#
# Beside FedAvg: training alone, a model for each hospital (Ditto), and what all rows in one place would give. Every hospital
# is tried on its own rows that nobody trained on, so the columns answer its question: is it better for *us*?

# %%
results = [unalike.run(algorithm=name, **common) for name in ("local", "fedavg", "ditto", "pooled")]
comparison = unalike.compare(results)
comparison

# %%
axes = comparison.plot()

# %% [markdown]
# One seed says little: hospitals have 20 to 60 rows to be tried on. `unalike recommend` looks at the parties and answers from
# hundreds of runs, and says what the evidence cannot say.

# %%
# !unalike recommend --dataset heart --partition natural

# %% [markdown]
# ## Use the model
#
# A result predicts, and so does its folder, on another machine and without the data.

# %%
again = unalike.load(results[1].run_dir)
again.predict_proba(heart.x_test[:3])
