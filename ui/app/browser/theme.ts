import { readStoredText, storeText } from "./stored-text.ts";

/** The themes to choose from; `system` follows `prefers-color-scheme`. */
export const themes = ["system", "light", "dark"] as const;

/** One of `themes`. */
export type Theme = (typeof themes)[number];

const storageKey = "theme";

/** Returns the stored theme; `system` without one. */
export const readTheme = (): Theme =>
  themes.find((theme) => theme === readStoredText(storageKey)) ?? "system";

/** Stores a theme for the next visit. */
export const storeTheme = (theme: Theme): void => storeText(storageKey, theme);

/** Shows the page in a theme: the tokens follow `data-theme` of the root element, or the system without one. */
export const showTheme = (theme: Theme): void => {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
};
