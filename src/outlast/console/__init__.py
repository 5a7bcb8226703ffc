"""The console: pages that show and steer runs, served by `outlast.http` from `static/`. Layer: console.

Plain ES modules and CSS, without a build step. What always holds: a page shows what the HTTP API says and does what the
API lets its user do; it has no door of its own. `static/app.js` is where it begins.
"""
