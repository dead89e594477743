"""The HTTP server: what it is given and promises (``interface``), and the one that ships."""
