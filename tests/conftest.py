import torch

torch.set_num_threads(1)  # tests run side by side: threads inside one operation would only fight
