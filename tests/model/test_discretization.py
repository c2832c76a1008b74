"""AFP, ISD and EDD compute the equations of the paper."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from idisc.configs.schema import AfpConfig, EddConfig, IsdConfig
from idisc.model.discretization import ExplicitDiscretization, FeaturePartition, SceneDiscretization

B, M, C, N, E = 2, 15, 8, 5, 6
AFP = AfpConfig(idrs=N, width=E)


def partition(config, seed=0):
    torch.manual_seed(seed)
    return FeaturePartition(C, config, expansion=2, activation="gelu")


@pytest.mark.parametrize(("softmax", "axis"), [("idrs", -1), ("pixels", -2)])
def test_the_partition_sums_to_one_over_the_axis_of_the_softmax(softmax, axis):
    rounds = []
    idrs = partition(replace(AFP, softmax=softmax))(torch.randn(B, M, C), rounds)
    assert idrs.shape == (B, N, E)
    assert [weights.shape for weights in rounds] == [(B, 1, M, N)] * 2
    for weights in rounds:
        torch.testing.assert_close(weights.sum(axis), torch.ones_like(weights.sum(axis)))


def test_equation_1_with_identity_projections():
    """Without norms, MLP and projections, one iteration is q_j + sum_i W_ij v_i / sum_i W_ij."""
    module = partition(AfpConfig(idrs=N, width=C, iterations=1))
    attention = module.attention
    attention.sink_norm = attention.source_norm = nn.Identity()
    for layer, weight in (
        (attention.query, torch.eye(C)),
        (attention.key_value, torch.cat((torch.eye(C), torch.eye(C)))),
        (attention.out, torch.eye(C)),
    ):
        layer.weight.data, layer.bias.data = weight, torch.zeros(len(weight))
    nn.init.zeros_(module.mlp[3].weight)
    nn.init.zeros_(module.mlp[3].bias)
    features = torch.randn(B, M, C)
    rounds = []
    idrs = module(features, rounds)
    (weights,) = rounds
    expected_weights = torch.softmax(features @ module.priors.mT / C**0.5, dim=-1)
    torch.testing.assert_close(weights[:, 0], expected_weights)
    shares = expected_weights + 1e-6
    expected = module.priors + (shares / shares.sum(1, keepdim=True)).mT @ features
    torch.testing.assert_close(idrs, expected)


def test_no_iterations_return_the_priors_and_have_no_other_weights():
    module = partition(replace(AFP, iterations=0))
    rounds = []
    idrs = module(torch.randn(B, M, C), rounds)
    assert rounds == []
    assert torch.equal(idrs, module.priors.expand(B, -1, -1))
    assert [name for name, _ in module.named_parameters()] == ["priors"]


def test_random_priors_are_drawn_in_training_and_fixed_otherwise():
    module = partition(replace(AFP, priors="random", update="slot"))
    features = torch.randn(B, M, C)
    assert not torch.equal(module(features), module(features))
    module.eval()
    assert torch.equal(module(features), module(features))
    again = partition(replace(AFP, priors="random", update="slot"), seed=1).eval()
    again.load_state_dict(module.state_dict())  # the fixed draw travels with the weights
    assert torch.equal(module(features), again(features))


def test_isd_is_attention_over_idrs_with_residuals():
    torch.manual_seed(0)
    module = SceneDiscretization(C, E, IsdConfig(layers=3), expansion=2, activation="silu")
    pixels, idrs = torch.randn(B, M, C), torch.randn(B, N, E)
    seen = []
    out = module(pixels, idrs, seen)
    assert out.shape == pixels.shape
    assert [weights.shape for weights in seen] == [(B, 1, M, N)] * 3
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(B, 1, M))
    with torch.no_grad():
        torch.testing.assert_close(module(pixels, idrs), out)  # in chunks, and without keeping any


def test_muting_idrs_equals_removing_them():
    torch.manual_seed(0)
    module = SceneDiscretization(C, E, IsdConfig(layers=2), expansion=2, activation="gelu")
    pixels, idrs = torch.randn(B, M, C), torch.randn(B, N, E)
    muted = torch.zeros(N, dtype=torch.bool)
    assert torch.equal(module(pixels, idrs, muted=muted), module(pixels, idrs))
    muted[[1, 3]] = True
    seen = []
    without = module(pixels, idrs, seen, muted)
    torch.testing.assert_close(without, module(pixels, idrs[:, [0, 2, 4]]))
    assert all((weights[..., [1, 3]] == 0).all() for weights in seen)
    torch.testing.assert_close(seen[1].sum(-1), torch.ones(B, 1, M))


def test_explicit_discretization_is_a_mean_of_bin_centres():
    torch.manual_seed(0)
    module = ExplicitDiscretization(C, EddConfig(bins=4, min_depth=1.0, max_depth=8.0))
    torch.testing.assert_close(module.log_centres.exp(), torch.tensor([1.0, 2.0, 4.0, 8.0]))
    pixels = torch.randn(B, M, C)
    shares = module.bins(module.norm(pixels)).softmax(-1)
    expected = shares @ torch.tensor([1.0, 2.0, 4.0, 8.0])
    torch.testing.assert_close(module(pixels).exp()[..., 0], expected)


def test_explicit_discretization_is_a_degenerate_case_of_isd():
    """The paper's claim: eq. 3 is eq. 2 with one number for each value and nothing else.

    Given any EDD, an ISD layer is built whose keys are the bins' embeddings and whose values are
    their centres, in the first channel. What it adds to that channel is EDD's depth, exactly.
    """
    torch.manual_seed(0)
    edd = ExplicitDiscretization(C, EddConfig(bins=N)).double()
    nn.init.normal_(edd.norm.weight)
    nn.init.normal_(edd.norm.bias)
    isd = SceneDiscretization(C, E, IsdConfig(layers=1), expansion=2, activation="gelu").double()
    idrs = torch.randn(1, N, E, dtype=torch.float64)  # N <= E: some linear map sends them anywhere
    layer = isd.layers[0]
    attention = layer.attention
    seen = attention.source_norm(idrs)[0]  # (N, E)
    keys = torch.linalg.lstsq(seen, edd.bins.weight * C**0.5).solution.T  # (C, E): S K^T = bins
    shift = torch.linalg.lstsq(edd.bins.weight, edd.bins.bias[:, None]).solution[:, 0]
    centres = torch.linalg.lstsq(seen, edd.log_centres.exp()[:, None]).solution.T  # (1, E)
    values = torch.cat((centres, torch.zeros(C - 1, E)))
    with torch.no_grad():
        attention.sink_norm.load_state_dict(edd.norm.state_dict())
        attention.query.weight.copy_(torch.eye(C))
        attention.query.bias.copy_(shift)  # bins (p + shift) = bins p + bias
        attention.key_value.weight.copy_(torch.cat((keys, values)))
        attention.out.weight.copy_(torch.eye(C))
        for bias in (attention.key_value.bias, attention.out.bias):
            bias.zero_()
        layer.mlp[3].weight.zero_()  # the MLP is not in eq. 2
        layer.mlp[3].bias.zero_()
        pixels = torch.randn(B, M, C, dtype=torch.float64)
        added = isd(pixels, idrs.expand(B, -1, -1)) - pixels
        depth = edd(pixels).exp()
    torch.testing.assert_close(added[..., :1], depth, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        added[..., 1:], torch.zeros(B, M, C - 1).double(), rtol=0, atol=1e-12
    )
