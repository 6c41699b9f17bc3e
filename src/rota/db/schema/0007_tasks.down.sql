DROP FUNCTION rota.set_task(text, boolean, text, text), rota.show_task(rota.task, boolean);
