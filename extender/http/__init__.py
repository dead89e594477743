"""Requests on their way in and answers on their way out: gunicorn, TLS, limits of both."""
