# An image with paddlewheel, for clusters: docker build -t paddlewheel . && docker run paddlewheel
# Scripts are added by an image made FROM this one, or mounted at /job.

FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
COPY crates crates
COPY python python
RUN python3 -m venv /opt/paddlewheel && /opt/paddlewheel/bin/pip install --no-cache-dir .

# The same Debian: the virtual environment needs the same python3.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/paddlewheel /opt/paddlewheel
ENV PATH=/opt/paddlewheel/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /job
# Pods run it as this user (paddlewheel render k8s).
RUN useradd --uid 1000 --create-home job && chown job /job
# Servers and trainers end in order when they are asked to.
STOPSIGNAL SIGTERM
CMD ["paddlewheel", "--help"]
