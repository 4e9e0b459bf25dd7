"""Pictures: OpenGL on canvases, layers and shadows, and a raster that needs neither."""
