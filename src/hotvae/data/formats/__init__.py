"""Files as others publish them: ARFF, archives, pickled arrays, known layouts."""
