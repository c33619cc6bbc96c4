/** SHA-256 by WebCrypto, which Node and workerd share. */
export const sha256 = async (data: Uint8Array<ArrayBuffer> | string): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(
    await crypto.subtle.digest("SHA-256", typeof data === "string" ? new TextEncoder().encode(data) : data),
  );
