/** The first 6 characters of a hash: enough to tell a handful of configs apart at a glance; the whole is in the drawer. */
export const shortHash = (hash: string): string => hash.slice(0, 6);
