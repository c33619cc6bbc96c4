import { readStored, storeText } from "../storage/browser-storage.ts";

/** What a person chose; `system` follows `prefers-color-scheme`. */
export const themes = ["system", "light", "dark"] as const;

/** One of `themes`. */
export type Theme = (typeof themes)[number];

const storageKey = "theme";

const isTheme = (value: unknown): value is Theme => (themes as readonly unknown[]).includes(value);

/** The stored choice; `system` without one, and where storage is denied. */
export const readTheme = (): Theme => {
  const stored = readStored(storageKey);
  return isTheme(stored) ? stored : "system";
};

/** Keeps a choice for the next visit, as far as storage is allowed. */
export const storeTheme = (theme: Theme): void => storeText(storageKey, theme);

/** Shows the page in a theme: the tokens follow `data-theme` of the root element, or the system without one. */
export const showTheme = (theme: Theme): void => {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
};
