"""Profiles of the properties in this folder."""

from tests import profiles

profiles.register()
