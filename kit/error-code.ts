/** The stable code that Node and the drivers put on their errors, such as `ENOENT`; undefined where there is none. */
export const errorCode = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
