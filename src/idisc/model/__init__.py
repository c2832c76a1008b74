"""The network: encoder, pixel decoder, AFP, ISD, heads. Needs torch and timm, and no dataset."""
