"""The viewer: truth and imagination side by side in a browser, under laws that a hand moves."""
