"""World models: what every one does is said in base.py; jepa.py and dino.py are the two of the paper."""
