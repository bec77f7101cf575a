"""File formats of others: ARFF, package archives, pickled arrays, published layouts."""
