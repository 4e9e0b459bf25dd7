"""World models: base.py defines their interface; jepa.py and dino.py are the two of the paper."""
