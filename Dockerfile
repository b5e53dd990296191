# A crawl in a container. Build and run:
#
#   docker build -t spoor .
#   docker run --rm -it -v "$PWD:/data" spoor crawl --seed URL --contact you@your.domain
#
# A crawl keeps everything in /data: the job file, jobs/ and models/.
FROM rust:1-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN .ci/dist "$(uname -m)" && .ci/image target/packages/spoor-*-musl /image

# The program is static, and certificates are compiled in, so nothing else is needed.
FROM scratch
COPY --from=build /image /
USER 1000:1000
WORKDIR /data
VOLUME /data
# After SIGTERM, open requests may finish; give them time: docker stop --time 60.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/spoor"]
CMD ["--help"]
