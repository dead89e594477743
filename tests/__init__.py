"""Everything that proves the product: the testbed, the simulated driver, fakes and tests."""
