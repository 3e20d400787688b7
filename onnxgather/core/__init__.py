"""What every part needs: descriptors, their lowering, models, runs, programs."""
