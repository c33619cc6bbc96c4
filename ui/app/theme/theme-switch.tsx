import { createSignal, For } from "solid-js";
import { Icon } from "../icons/icon.tsx";
import { readTheme, showTheme, storeTheme, type Theme, themes } from "./theme.ts";

const labels: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" };

/** Three radio buttons: as the system, light, dark. The choice applies at once and is kept. */
export const ThemeSwitch = () => {
  const [chosen, choose] = createSignal(readTheme());
  const apply = (theme: Theme) => {
    choose(theme);
    storeTheme(theme);
    showTheme(theme);
  };
  return (
    <fieldset class="theme-switch">
      <legend class="visually-hidden">Theme</legend>
      <For each={themes}>
        {(theme) => (
          <label title={`${labels[theme]} theme`}>
            <input type="radio" name="theme" value={theme} checked={chosen() === theme} onChange={() => apply(theme)} />
            <Icon name={theme} />
            <span class="visually-hidden">{labels[theme]}</span>
          </label>
        )}
      </For>
    </fieldset>
  );
};
