"""The arms: published kinematics, masses and motors, and inverse kinematics."""

MENAGERIE = "SGJEPA_MENAGERIE"  # the variable that names a folder with MuJoCo Menagerie, whose meshes robots then wear
