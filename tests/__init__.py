"""Everything that proves the product: the bench, the simulated driver, fakes and tests."""
