"""The HTTP API: routes, server-sent events, who may what, and the OpenAPI document. Layer: http."""
