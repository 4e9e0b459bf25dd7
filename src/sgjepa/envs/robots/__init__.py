"""The arms: published kinematics, masses and motors, and inverse kinematics."""
