# A crawl in a container. Build and run:
#
#   docker build -t spoor .
#   docker run --rm -it -v "$PWD:/data" spoor crawl --seed URL --contact you@your.domain
#
# A crawl keeps everything in /data: the job file, jobs/ and models/.
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin spoor \
    && install target/release/spoor /usr/local/bin/spoor

FROM debian:bookworm-slim
# KenLM is C++. Certificates are compiled in, so nothing else is needed.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 spoor \
    && install -d -o spoor -g spoor /data /data/models /shared
COPY --from=build /usr/local/bin/spoor /usr/local/bin/spoor
# `spoor licenses` prints the notices as well; they say how to link another KenLM.
COPY LICENSE-MIT LICENSE-APACHE THIRD-PARTY.md /usr/share/doc/spoor/
USER spoor
WORKDIR /data
VOLUME /data
# After SIGTERM, open requests may finish; give them time: docker stop --time 60.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/spoor"]
CMD ["--help"]
