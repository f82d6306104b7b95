"""From tracks to tracklets: crops and their measures, the noise filter, proposals to merge.

What is made of what is said by these roles of parents in the store.
"""

REPORT_OF = "report_of"
"""A filter report to its track."""
PART_OF = "part_of"
"""A tracklet to the filter report that it is a part of."""
