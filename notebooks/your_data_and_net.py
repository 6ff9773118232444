# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Your own data, your own net
#
# A data frame, arrays, a CSV file, a folder of images or a database become a data set in one line; any PyTorch module becomes
# the net. Here the data are made up: three clinics whose patients differ in age.

# %%
import numpy as np
import pandas as pd

draw = np.random.default_rng(1)
clinic = np.repeat(["coast", "city", "hills"], [260, 180, 120])
age = draw.normal(np.select([clinic == "coast", clinic == "city"], [64, 41], 55), 9)
blood = draw.choice(["a", "b", "o"], len(clinic))
risk = 0.08 * (age - 52) + 0.9 * (blood == "b") + draw.normal(0, 0.8, len(clinic))
patients = pd.DataFrame(
    {"clinic": clinic, "age": age.round(), "blood": blood, "ill": np.where(risk > 0, "yes", "no")}
)
patients.head()

# %% [markdown]
# ## A data set
#
# Columns are coded by rules that can be read: numbers are standardised, texts become categories. The clinic of a row is its party.

# %%
import unalike

data = unalike.dataset(patients, label="ill", parties="clinic", name="clinics")
print(data.features, data.group_names)

# %% [markdown]
# ## A net
#
# Any module whose `forward` returns logits. It is given the shape of a row and the number of classes.

# %%
from torch import nn


class Small(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self, shape, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, classes))

    def forward(self, x):
        return self.layers(x)


result = unalike.run(
    dataset=data, partition="natural", model=Small, algorithm="fedprox(mu=0.1)", rounds=30, runs="runs"
)
result

# %% [markdown]
# ## New patients
#
# New rows are coded as the training's were; a category that nobody had is a mistake that is told, not guessed at.

# %%
new = pd.DataFrame({"age": [35, 71], "blood": ["o", "b"]})
result.predict(new), result.predict_proba(new).round(2)

# %% [markdown]
# ## The card
#
# What was trained on what, how well it does and for whom: Markdown for people, JSON for programs.

# %%
result.card()
