"""A generative adversarial network: two models, two optimizers and one schedule in one trial."""

from __future__ import annotations

import data
import torch
from model import LATENT, Discriminator, Generator
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from determined import pytorch


class GANTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        # The generator ends in a tanh, so the real images are scaled to -1..1 as well.
        self.train_set, self.validation_set = data.load(data.settings(context), mean=0.5, std=0.5)
        self.generator = context.wrap_model(Generator(self.train_set.shape))
        self.discriminator = context.wrap_model(Discriminator(self.train_set.shape))
        adam = {
            "lr": context.get_hparam("lr"),
            "betas": (context.get_hparam("b1"), context.get_hparam("b2")),
        }
        self.opt_g = context.wrap_optimizer(torch.optim.Adam(self.generator.parameters(), **adam))
        self.opt_d = context.wrap_optimizer(torch.optim.Adam(self.discriminator.parameters(), **adam))
        context.wrap_lr_scheduler(
            LambdaLR(self.opt_g, lr_lambda=lambda epoch: 0.95**epoch),
            pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: pytorch.TorchData, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        real, _ = batch
        fake = self.generator(self.noise(len(real)))

        # The generator learns to be classified as real. The discriminator only passes on gradients meanwhile.
        self.discriminator.requires_grad_(False)
        verdict = self.discriminator(fake)
        g_loss = F.binary_cross_entropy_with_logits(verdict, torch.ones_like(verdict))
        self.context.backward(g_loss)
        self.context.step_optimizer(self.opt_g)
        self.discriminator.requires_grad_(True)

        # The discriminator learns to distinguish both kinds.
        verdict = self.discriminator(torch.cat([real, fake.detach()]))
        truth = torch.cat([torch.ones_like(verdict[: len(real)]), torch.zeros_like(verdict[len(real) :])])
        d_loss = F.binary_cross_entropy_with_logits(verdict, truth)
        self.context.backward(d_loss)
        self.context.step_optimizer(self.opt_d)

        if self.context.is_epoch_end():
            self.log_images(fake, batch_idx)
        return {"loss": d_loss, "g_loss": g_loss, "d_loss": d_loss}

    def evaluate_batch(self, batch: pytorch.TorchData) -> dict[str, torch.Tensor]:
        real, _ = batch
        verdict = self.discriminator(self.generator(self.noise(len(real))))
        return {"loss": F.binary_cross_entropy_with_logits(verdict, torch.ones_like(verdict))}

    def noise(self, count: int) -> torch.Tensor:
        return self.context.to_device(torch.randn(count, LATENT))

    def log_images(self, images: torch.Tensor, step: int) -> None:
        """Show what the generator draws on TensorBoard, if the configuration says so."""
        if data.settings(self.context).get("log_images") and self.context.distributed.rank == 0:
            writer = self.context.get_tensorboard_writer()
            writer.add_images("generated", images[:25].detach().cpu() / 2 + 0.5, step)
