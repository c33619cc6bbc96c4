const iterations = 4096;

/**
 * Returns the SCRAM-SHA-256 verifier of a password (RFC 5803, as PostgreSQL stores it): the server's log of a CREATE ROLE then holds no
 * password. `password` is ASCII; the same password and salt give the same verifier.
 */
export const scramVerifier = async (password: string, salt: string): Promise<string> => {
  const saltBytes = new TextEncoder().encode(salt).slice(0, 16);
  const material = await crypto.subtle.importKey(
    "raw",
    new TextEncoder().encode(password),
    "PBKDF2",
    false,
    ["deriveBits"],
  );
  const salted = new Uint8Array(
    await crypto.subtle.deriveBits(
      { name: "PBKDF2", hash: "SHA-256", salt: saltBytes, iterations },
      material,
      256,
    ),
  );
  const stored = new Uint8Array(
    await crypto.subtle.digest("SHA-256", await hmac(salted, "Client Key")),
  );
  const server = await hmac(salted, "Server Key");
  return `SCRAM-SHA-256$${iterations}:${saltBytes.toBase64()}$${stored.toBase64()}:${server.toBase64()}`;
};

const hmac = async (
  key: Uint8Array<ArrayBuffer>,
  text: string,
): Promise<Uint8Array<ArrayBuffer>> => {
  const imported = await crypto.subtle.importKey(
    "raw",
    key,
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, new TextEncoder().encode(text)));
};
