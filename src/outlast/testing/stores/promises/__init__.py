"""What a store promises, a module for each subject, each test a promise. Layer: testing.

They are run through `outlast.testing.stores.StoreContract`, which gives them their fixtures.
"""
