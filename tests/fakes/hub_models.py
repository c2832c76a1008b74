"""Small depth models of `transformers` with random weights and their real conventions."""

from typing import Any, NamedTuple

import pytest
import torch

hub = pytest.importorskip("transformers", reason="the extra transformers is not installed")


class HubModel(NamedTuple):
    """A model, its image processor, and the depth of its own pipeline."""

    model: Any
    processor: Any
    metric: bool

    def depth(self, image):
        """The answer (H, W) of image processor, model and post-processing for a picture."""
        inputs = self.processor(images=image, return_tensors="pt")
        with torch.inference_mode():
            outputs = self.model(**inputs)
        sizes = [image.shape[:2]]
        more = {"source_sizes": sizes} if "Zoe" in type(self.processor).__name__ else {}
        found = self.processor.post_process_depth_estimation(outputs, target_sizes=sizes, **more)
        return found[0]["predicted_depth"].numpy()

    def save(self, folder):
        """Write a folder as those of the hub are."""
        self.model.save_pretrained(folder)
        self.processor.save_pretrained(folder)
        return folder

    def export(self, path, size):
        """Write an ONNX file for pictures of one size, with the usual names."""
        names = ["predicted_depth"]
        if hasattr(self.model, "fov_model"):
            names.append("field_of_view")

        class Exported(torch.nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, pixel_values):
                found = self.model(pixel_values=pixel_values)
                return tuple(found[name] for name in names)

        path.parent.mkdir()
        with torch.inference_mode():  # as `depth`: BEiT keeps tensors from call to call
            torch.onnx.export(
                Exported(self.model).eval(),
                (torch.randn(1, 3, *size),),
                str(path),
                input_names=["pixel_values"],
                output_names=names,
                dynamo=False,  # seconds, not minutes; torch's newer exporter fails for ZoeDepth
            )
        return path


def depth_anything(metric=False):
    """Depth Anything V2 with two layers of DINOv2."""
    backbone = hub.Dinov2Config(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        image_size=518,
        patch_size=14,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    kind = {"depth_estimation_type": "metric", "max_depth": 20} if metric else {}
    config = hub.DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        patch_size=14,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        head_hidden_size=8,
        **kind,
    )
    processor = hub.DPTImageProcessorPil(
        size={"height": 518, "width": 518},
        keep_aspect_ratio=True,
        ensure_multiple_of=14,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )
    return _made(hub.DepthAnythingForDepthEstimation, config, processor, metric)


def dpt():
    """DPT, as MiDaS 3 is, at 384x384 whatever the aspect ratio."""
    config = hub.DPTConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=384,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
    )
    return _made(hub.DPTForDepthEstimation, config, hub.DPTImageProcessorPil(), metric=False)


def glpn():
    """GLPN, which sees pictures in their own size."""
    config = hub.GLPNConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2]
    )
    config.decoder_hidden_size = 8
    return _made(hub.GLPNForDepthEstimation, config, hub.GLPNImageProcessorPil(), metric=True)


def zoedepth():
    """ZoeDepth with a small BEiT."""
    backbone = hub.BeitConfig(
        image_size=384,
        num_hidden_layers=4,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        use_relative_position_bias=True,
        reshape_hidden_states=False,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = hub.ZoeDepthConfig(
        backbone_config=backbone,
        backbone_hidden_size=32,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        bottleneck_features=8,
        bin_embedding_dim=16,
        num_relative_features=8,
        bin_configurations=[{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}],
    )
    processor = hub.ZoeDepthImageProcessorPil(ensure_multiple_of=32)
    return _made(hub.ZoeDepthForDepthEstimation, config, processor, metric=True)


def depth_pro():
    """Depth Pro with three small ViTs, and pictures of a sixth of its size."""
    vit = {
        "model_type": "dinov2",
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "patch_size": 8,
        "image_size": 64,
        "use_mask_token": False,
    }
    config = hub.DepthProConfig(
        patch_size=64,
        fusion_hidden_size=16,
        intermediate_hook_ids=[1, 0],
        intermediate_feature_dims=[16, 16],
        scaled_images_ratios=[0.25, 0.5, 1.0],
        scaled_images_overlap_ratios=[0.0, 0.5, 0.25],
        scaled_images_feature_dims=[32, 32, 16],
        image_model_config=vit,
        patch_model_config=vit,
        fov_model_config=vit,
        use_fov_model=True,
        num_fov_head_layers=1,
    )
    processor = hub.DepthProImageProcessor(size={"height": 256, "width": 256})
    made = _made(hub.DepthProForDepthEstimation, config, processor, metric=True)
    parameters = dict(made.model.named_parameters())
    _fill(parameters["head.layers.4.bias"], 20.0)  # most of 1 / depth is above 0, as that of photos
    for name, values in parameters.items():
        if name.startswith("fov_model") and values.shape == (1,):
            _fill(values, 60.0)  # degrees
    return made


MODELS = {each.__name__: each for each in (depth_anything, dpt, glpn, zoedepth, depth_pro)}


def _made(kind, config, processor, metric):
    torch.manual_seed(0)
    model = kind(config).eval()
    for weights in model.parameters():  # their own are so small that every answer is nearly 0
        if weights.ndim > 1:
            torch.nn.init.kaiming_uniform_(weights)
    return HubModel(model, processor, metric)


def _fill(values, number):
    import torch

    torch.nn.init.constant_(values, number)
