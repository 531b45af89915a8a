// Light or dark: the choice of the user, else that of the system.

function stored(): string | null {
  try {
    return localStorage.getItem("det-theme");
  } catch {
    return null; // Storage is switched off, or this is a sandboxed frame.
  }
}

export function applyTheme(theme: string | null = stored()): void {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme ?? system;
  window.dispatchEvent(new Event("det-theme"));
}

export function toggleTheme(): void {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("det-theme", theme);
  } catch {
    // Kept for this page only.
  }
  applyTheme(theme);
}
