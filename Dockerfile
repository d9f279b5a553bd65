# One build for every Rust part; each part is a stage: api, worker, fake-provider.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --workspace --bins \
    && mkdir /out && cp target/release/penstock-api target/release/penstock-worker target/release/penstock-fake-provider /out/

FROM debian:bookworm-slim AS run
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home penstock
USER penstock
STOPSIGNAL SIGTERM

FROM run AS api
COPY --from=build /out/penstock-api /usr/local/bin/
ENV PENSTOCK_API__LISTEN=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["penstock-api"]
CMD ["serve"]

FROM run AS worker
COPY --from=build /out/penstock-worker /usr/local/bin/
ENV PENSTOCK_WORKER__LISTEN=0.0.0.0:8081
EXPOSE 8081
ENTRYPOINT ["penstock-worker"]

FROM run AS fake-provider
COPY --from=build /out/penstock-fake-provider /usr/local/bin/
EXPOSE 8082
ENTRYPOINT ["penstock-fake-provider"]
CMD ["--listen", "0.0.0.0:8082"]
