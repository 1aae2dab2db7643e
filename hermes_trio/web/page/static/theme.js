// Runs before anything is drawn, so that a dark room stays dark.
document.documentElement.dataset.theme = localStorage.getItem("theme") || "system";
