# One image for the server and the hospitals; docs/deployment.md says how to use it.
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 \
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 OMP_WAIT_POLICY=PASSIVE HOME=/tmp FLWR_HOME=/tmp/flwr
WORKDIR /app
COPY pyproject.toml README.md LICENSE fedrean.py ./
# The CPU index names the same version with "+cpu", which pip prefers. Only the dependencies stay.
RUN pip install --extra-index-url https://download.pytorch.org/whl/cpu ".[train]" \
    && pip uninstall --yes fedrean
COPY common common
COPY client client
COPY server server
COPY simulations simulations
USER 1000:1000
