# The images topo-master (which has `topo` too) and topo-worker, each with what it imports and no more:
#   docker build --target master -t topo-master .
#   docker build --target worker -t topo-worker .
#   docker build --target sweeper -t topo-sweeper .
# `make image` builds all with buildah. BASE has glibc, and Python >= 3.11 with its venv module.
ARG BASE=python:3.11-slim-bookworm
# The stage of this name, or an image of it: `make image` makes that once, for all.
ARG WHEELS=wheels

# The lock names every version with its hash. What is no ready wheel is refused, for nothing here has
# a compiler. Settings of pip, such as another index, come as a secret and so are in no layer:
#   docker build --secret id=pip,src=/etc/pip.conf …
FROM ${BASE} AS wheels
# The time of the commit, in seconds: with it no file that is compiled or packed has another time in it.
ARG SOURCE_DATE_EPOCH
WORKDIR /src
RUN python3 -m venv /build
COPY requirements-run.lock ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/bin/pip download --disable-pip-version-check --no-cache-dir --quiet \
      --require-hashes --no-deps --only-binary=:all: --dest /wheels --requirement requirements-run.lock
# From here on there is no index, only the wheels that were verified, and then ours.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_NO_INDEX=1 \
    PIP_QUIET=1
COPY LICENSE README.md pyproject.toml ./
COPY packaging/backend.py packaging/
COPY topo topo
COPY master master
COPY worker worker
RUN /build/bin/pip install --upgrade setuptools && \
    /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . && \
    python3 -m venv --without-pip /opt/topo

# Compiled here: the root of a container may be read-only.
FROM ${WHEELS} AS master-programs
ARG SOURCE_DATE_EPOCH
RUN /build/bin/pip --python /opt/topo/bin/python install --compile 'supernode-topology[master,cli]'

FROM ${WHEELS} AS worker-programs
ARG SOURCE_DATE_EPOCH
RUN /build/bin/pip --python /opt/topo/bin/python install --compile 'supernode-topology[worker]'

FROM ${BASE} AS programs
ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.vendor="Supernode topology discovery" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}"
ENV PATH=/opt/topo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
# A number, for Kubernetes checks `runAsNonRoot` by it; nobody in /etc/passwd has it.
USER 65532:65532

FROM programs AS worker
LABEL org.opencontainers.image.title="topo-worker" \
      org.opencontainers.image.description="Reads what a GPU node is wired to and reports it"
COPY --from=worker-programs /opt/topo /opt/topo
EXPOSE 9002
ENTRYPOINT ["topo-worker"]

# Where topo-worker sweeps an InfiniBand fabric (docs/fabric.md); BASE is a Debian, with its mirror in reach.
# DIAGS is the version of its four packages, those of Debian 12: another would be other bytes. Of each the image
# keeps what dpkg says of it, in the folder where lists of parts look for it, its licence, and the sums of its files.
FROM ${BASE} AS diags
ARG DIAGS=44.0-2
RUN names="infiniband-diags libibnetdisc5 libibmad5 libibumad3" && \
    apt-get update --quiet=2 && \
    apt-get install --quiet=2 --yes --no-install-recommends $(printf "%s=$DIAGS " $names) && \
    mkdir -p /parts/var/lib/dpkg/status.d && \
    for name in $names; do \
      dpkg-query --status "$name" > "/parts/var/lib/dpkg/status.d/$name" && \
      cat "$(dpkg-query --control-path "$name" md5sums)" > "/parts/var/lib/dpkg/status.d/$name.md5sums" && \
      install -D --mode=644 "/usr/share/doc/$name/copyright" "/parts/usr/share/doc/$name/copyright" || exit; \
    done

# The worker with that program and its three libraries; the package brings perl, which is a hundred times as large.
# Not of the stage `worker`: the history would have a tag of that image in it, and so be another for each.
FROM programs AS sweeper
LABEL org.opencontainers.image.title="topo-sweeper" \
      org.opencontainers.image.description="Sends masters what ibnetdiscover prints"
COPY --from=worker-programs /opt/topo /opt/topo
COPY --from=diags /usr/sbin/ibnetdiscover /usr/sbin/
COPY --from=diags /usr/lib/*-linux-gnu/libibnetdisc.so.5 /usr/lib/*-linux-gnu/libibmad.so.5 \
     /usr/lib/*-linux-gnu/libibumad.so.3 /usr/lib/
COPY --from=diags /parts /
EXPOSE 9002
ENTRYPOINT ["topo-worker"]

FROM programs AS master
LABEL org.opencontainers.image.title="topo-master" \
      org.opencontainers.image.description="Serves which GPU nodes are wired together; with topo"
COPY --from=master-programs /opt/topo /opt/topo
EXPOSE 9001 10001
ENTRYPOINT ["topo-master"]
