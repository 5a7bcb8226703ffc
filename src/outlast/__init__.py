"""outlast: workflows that outlast the process that started them."""
