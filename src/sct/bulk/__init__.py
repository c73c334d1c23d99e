"""Bulk jobs: many shards of images, on one computer, in job arrays or on a Ray cluster."""
