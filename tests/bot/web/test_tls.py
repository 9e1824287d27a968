"""``preflight serve`` over TLS: a verified client certificate stands for a token, any other for nobody."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from collections.abc import Callable
from pathlib import Path

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bot.web.gate_tokens import hashed
from tests.bot.queue.stack import free_port
from tests.support import WEBHOOK_SECRET, wait_for

_DELETE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u", "operation": "DELETE"},
}


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = self._write(name, self._signed(self.name, self.key, is_authority=True))

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for `name` (and for 127.0.0.1) and its key, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._write(name, self._signed(subject, key, is_authority=False))
        path = self.folder / f"{name}.key"
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return str(certificate), str(path)

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        # From 3.13 on, Python verifies strictly (RFC 5280): key identifiers, and what an authority's key may do.
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        usage = x509.KeyUsage(
            digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
            content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .add_extension(identifier, critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(usage, critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def _write(self, name: str, certificate: x509.Certificate) -> Path:
        path = self.folder / f"{name}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


def test_a_client_certificate_stands_for_a_token(
    redis_url: str, tmp_path: Path, preflight: Callable[..., subprocess.Popen[bytes]]
) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    server, cluster, stranger = ours.issue("server"), ours.issue("cluster"), ours.issue("stranger")
    forged = other.issue("forged")
    tokens = tmp_path / "tokens.toml"
    entry = '[[token]]\nname = "a"\ninstallation = 7\nsha256 = "{}"\nclient = "{}"\n'
    tokens.write_text(entry.format(hashed("x"), "cluster") + entry.format(hashed("y"), "forged"))
    address = f"127.0.0.1:{free_port()}"
    options = ("--certificate", server[0], "--key", server[1], "--client-ca", str(ours.path))
    preflight(
        "serve", "--bind", address, "--processes", "1", *options,
        REDIS_URL=redis_url, PREFLIGHT_WEBHOOK_SECRET=WEBHOOK_SECRET, PREFLIGHT_GATE_TOKENS_FILE=str(tokens),
    )  # fmt: skip

    def post(client: tuple[str, str] | None, **headers: str) -> int:
        try:
            return requests.post(
                f"https://{address}/admission", json=_DELETE, cert=client, verify=str(ours.path), headers=headers,
                timeout=20,
            ).status_code  # fmt: skip
        except requests.RequestException:
            return 0

    wait_for(lambda: post(None) != 0, 60, "the server answers over TLS")
    assert post(None) == 401
    assert post(None, Authorization="Bearer x") == 200
    assert post(cluster) == 200
    assert post(stranger) == 401
    assert post(forged) in {0, 401}
    assert post(cluster, Authorization="Bearer wrong") == 401
