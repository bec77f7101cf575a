"""Field data in, maps out: eBird files, covariates at places, grids, maps, and where a map can be trusted.

What stands here needs the packages of the extra ``geo``. They are imported when they are first used, by
:func:`~hotvae.geo.extras.geo_module`.
"""
