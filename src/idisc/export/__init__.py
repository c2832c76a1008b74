"""Export of networks as ONNX files, each compared with its network before it is kept."""
