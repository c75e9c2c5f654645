"""A committed run brought up to date: changed rows in, touched rows computed anew, all else shared with that run."""
